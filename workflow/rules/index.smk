# index: inventories, or the released index, become a task JSON in the published record format


rule build_index:
    """Build one task JSON; a blocked source gives an empty list and the reason beside it."""
    input:
        lambda wildcards: PLAN.index_inputs(f"{wildcards.index}.json"),
    output:
        index=f"{BENCHMARK}/{{index}}.json",
        quality=f"{BENCHMARK}/{{index}}.quality.json",
        status=f"{BENCHMARK}/{{index}}.status.json",
    log:
        f"{RESULTS}/logs/index/{{index}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/index/{{index}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        settings=lambda wildcards: PLAN.index_settings(f"{wildcards.index}.json"),
        code=lambda _: PLAN.code("index"),
        task=lambda wildcards: PLAN.task_of(f"{wildcards.index}.json"),
    shell:
        "medheb index {params.task} > {log} 2>&1"


# Not part of `all`: `snakemake train_data`.
rule train_data:
    """Training rows of all in-distribution tasks; needs every source, as no row may show anything of a test."""
    input:
        PLAN.train_inputs(),
    output:
        PLAN.train_summary,
    log:
        f"{RESULTS}/logs/index/train_data.log",
    benchmark:
        f"{RESULTS}/benchmarks/index/train_data.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        settings=PLAN.train_settings(),
        code=lambda _: PLAN.code("train"),
    shell:
        "medheb index train > {log} 2>&1"
