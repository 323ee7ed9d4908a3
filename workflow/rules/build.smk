# build: a source's files become its canonical image folder, with an inventory written last


rule build_images:
    """Build one source's images. Deleting the folder deletes the inventory, so Snakemake sees it."""
    input:
        status=f"{SOURCES}/{{dataset}}/status.json",
    output:
        f"{BENCHMARK}/{{images}}/{{dataset}}.inventory.json",
    log:
        f"{RESULTS}/logs/build/{{images}}/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/build/{{images}}/{{dataset}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        settings=lambda wildcards: PLAN.build_settings(wildcards.dataset),
        code=lambda _: PLAN.code("build"),
    shell:
        "medheb build {wildcards.dataset} > {log} 2>&1"


for _dataset in PLAN.datasets:

    rule:
        name:
            f"dataset_{_dataset}"
        input:
            PLAN.dataset_targets(_dataset),
        localrule: True
