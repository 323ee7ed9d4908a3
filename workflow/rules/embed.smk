# embed: the GPU job of the benchmark; one model load for all tasks that draw on the same sources
from medheb.cluster.rules import gpu_resources


rule fit_bridge:
    """Fit the bridge between the two towers of a dual encoder on its training sources."""
    input:
        model=f"{RESULTS}/models/{{model}}/status.json",
        inventories=lambda wildcards: PLAN.inventories_for_bridge(wildcards.model),
    output:
        f"{RESULTS}/models/{{model}}/bridge.json",
    log:
        f"{RESULTS}/logs/fit_bridge/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fit_bridge/{{model}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
        **gpu_resources(workflow, lambda wildcards: PLAN.embed_gpus(wildcards.model)),
    params:
        settings=lambda wildcards: PLAN.vector_settings(wildcards.model),
        code=lambda _: PLAN.code("bridge"),
    shell:
        "medheb bridge {wildcards.model} --threads {threads} > {log} 2>&1"


rule embed_inputs:
    """Embed what the store lacks of the tasks that draw on the same sources."""
    input:
        lambda wildcards: PLAN.embed_inputs(wildcards.model, wildcards.group),
    output:
        f"{RESULTS}/embeddings/{{model}}/{{group}}.json",
    log:
        f"{RESULTS}/logs/embed/{{model}}/{{group}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/embed/{{model}}/{{group}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=720,
        **gpu_resources(workflow, lambda wildcards: PLAN.embed_gpus(wildcards.model)),
    params:
        settings=lambda wildcards: PLAN.embed_settings(wildcards.model),
        code=lambda _: PLAN.code("embed"),
    shell:
        "medheb embed {wildcards.model} {wildcards.group} --threads {threads} > {log} 2>&1"
