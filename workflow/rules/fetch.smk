# fetch: a download, or the reason why there is none, in status.json
from medheb.cluster.rules import runs_here


rule fetch_source:
    """Download and unpack one source, or record why it is blocked."""
    input:
        locks=lambda wildcards: PLAN.locks(wildcards.dataset),
    output:
        f"{SOURCES}/{{dataset}}/status.json",
    log:
        f"{RESULTS}/logs/fetch/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fetch/{{dataset}}.tsv"
    localrule: runs_here(workflow, "fetch_source")
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=120,
    params:
        settings=lambda wildcards: PLAN.fetch_settings(wildcards.dataset),
    shell:
        "medheb fetch {wildcards.dataset} > {log} 2>&1"


rule fetch_model:
    """Download and unpack one model's weights, or record why they are blocked."""
    input:
        locks=lambda wildcards: PLAN.weights_locks(wildcards.model),
    output:
        f"{RESULTS}/models/{{model}}/status.json",
    log:
        f"{RESULTS}/logs/fetch_model/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fetch_model/{{model}}.tsv"
    localrule: runs_here(workflow, "fetch_model")
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=120,
    params:
        settings=lambda wildcards: PLAN.model_settings(wildcards.model)
        + PLAN.own_weights(wildcards.model),
    shell:
        "medheb fetch-model {wildcards.model} > {log} 2>&1"
