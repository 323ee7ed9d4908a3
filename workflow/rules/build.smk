# build: a source's files become its canonical image folder, with an inventory written last
from medheb.cluster.rules import gpu_resources


rule build_images:
    """Build one source's images, or gather what its shards built. Deleting the folder deletes the inventory."""
    input:
        unpack(lambda wildcards: PLAN.build_inputs(wildcards.dataset)),
        shards=lambda wildcards: PLAN.shard_receipts(wildcards.dataset),
    output:
        f"{BENCHMARK}/{{images}}/{{dataset}}.inventory.json",
    log:
        f"{RESULTS}/logs/build/{{images}}/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/build/{{images}}/{{dataset}}.tsv"
    conda:
        "../../envs/core.yaml"
    container:
        PLAN.build_image
    threads: 1
    resources:
        **gpu_resources(workflow, lambda wildcards: PLAN.build_gpus(wildcards.dataset)),
        mem_mb=2000,
        runtime=240,
    params:
        settings=lambda wildcards: PLAN.build_settings(wildcards.dataset),
        code=lambda wildcards: PLAN.build_code(wildcards.dataset),
    shell:
        "medheb build {wildcards.dataset} --workers {threads} > {log} 2>&1"


rule build_shard:
    """Build every n-th case of a large source into the staging folder that build_images gathers."""
    input:
        unpack(lambda wildcards: PLAN.build_inputs(wildcards.dataset)),
    output:
        f"{RESULTS}/build/{{dataset}}/shard_{{number}}_of_{{parts}}.json",
    log:
        f"{RESULTS}/logs/build/{{dataset}}/shard_{{number}}_of_{{parts}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/build/{{dataset}}/shard_{{number}}_of_{{parts}}.tsv"
    conda:
        "../../envs/core.yaml"
    container:
        PLAN.build_image
    threads: 1
    resources:
        **gpu_resources(workflow, lambda wildcards: PLAN.build_gpus(wildcards.dataset)),
        mem_mb=4000,
        runtime=480,
    params:
        settings=lambda wildcards: PLAN.build_settings(wildcards.dataset),
        code=lambda wildcards: PLAN.build_code(wildcards.dataset),
    shell:
        "medheb build {wildcards.dataset} --workers {threads}"
        " --shard {wildcards.number}/{wildcards.parts} --receipt {output} > {log} 2>&1"


for _dataset in PLAN.datasets:

    rule:
        name:
            f"dataset_{_dataset}"
        input:
            PLAN.dataset_targets(_dataset),
        localrule: True
