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
        **gpu_resources(workflow, lambda wildcards: PLAN.embed_gpus(wildcards.model)),
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: PLAN.vector_settings(wildcards.model),
        code=lambda _: PLAN.code("bridge"),
    shell:
        "medheb bridge {wildcards.model} --threads {threads} > {log} 2>&1"


rule embed_inputs:
    """Embed what the store lacks of the tasks that draw on the same sources, or gather what its shards embedded."""
    input:
        unpack(lambda wildcards: PLAN.gathered_inputs(wildcards.model, wildcards.group)),
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
        **gpu_resources(
            workflow,
            lambda wildcards: PLAN.group_gpus(wildcards.model, wildcards.group),
        ),
        mem_mb=4000,
        runtime=720,
    params:
        settings=lambda wildcards: PLAN.embed_settings(wildcards.model),
        code=lambda wildcards: PLAN.embed_code(wildcards.model, wildcards.group),
        gather=lambda wildcards: PLAN.gather_option(wildcards.model, wildcards.group),
    shell:
        "medheb embed {wildcards.model} {wildcards.group} --threads {threads} {params.gather} > {log} 2>&1"


rule embed_shard:
    """Embed every n-th batch of a large group of tasks into the store that embed_inputs gathers."""
    input:
        lambda wildcards: PLAN.embed_inputs(wildcards.model, wildcards.group),
    output:
        f"{RESULTS}/embeddings/{{model}}/shards/{{group}}/{{number}}_of_{{parts}}.json",
    log:
        f"{RESULTS}/logs/embed/{{model}}/{{group}}_{{number}}_of_{{parts}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/embed/{{model}}/{{group}}_{{number}}_of_{{parts}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 2
    resources:
        **gpu_resources(workflow, lambda wildcards: PLAN.embed_gpus(wildcards.model)),
        mem_mb=4000,
        runtime=720,
    params:
        settings=lambda wildcards: PLAN.embed_settings(wildcards.model),
        code=lambda _: PLAN.code("embed"),
    shell:
        "medheb embed {wildcards.model} {wildcards.group} --threads {threads}"
        " --shard {wildcards.number}/{wildcards.parts} > {log} 2>&1"
