# graded: queries and pools of a task, or of two sources, weighed by the written rules of graded.yaml


rule evaluate_graded:
    """Score one model on one graded task from stored vectors."""
    input:
        lambda wildcards: PLAN.graded_inputs(wildcards.model, wildcards.graded),
    output:
        score=f"{RESULTS}/graded/{{model}}/{{graded}}.json",
        per_query=f"{RESULTS}/graded/{{model}}/{{graded}}.parquet",
    log:
        f"{RESULTS}/logs/graded/{{model}}/{{graded}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/graded/{{model}}/{{graded}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        settings=lambda wildcards: PLAN.graded_settings(wildcards.graded),
        code=lambda _: PLAN.code("graded"),
    shell:
        "medheb evaluate-graded {wildcards.model} {wildcards.graded} > {log} 2>&1"
