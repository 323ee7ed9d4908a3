# evaluate: rank, score, and keep the ranks of every query


rule evaluate_task:
    """Score one model on one task from stored vectors."""
    input:
        lambda wildcards: PLAN.evaluate_inputs(wildcards.model, wildcards.task),
    output:
        score=f"{RESULTS}/scores/{{model}}/{{task}}.json",
        per_query=f"{RESULTS}/scores/{{model}}/{{task}}.parquet",
    log:
        f"{RESULTS}/logs/evaluate/{{model}}/{{task}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluate/{{model}}/{{task}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        settings=lambda _: PLAN.evaluate_settings(),
        code=lambda _: PLAN.code("evaluate"),
    shell:
        "medheb evaluate {wildcards.model} {wildcards.task} > {log} 2>&1"
