# audit: digests of everything that led to a number; reads all, writes nothing else


rule record_digests:
    """Hash one source's built files and compare them with its inventory."""
    input:
        lambda wildcards: PLAN.inventory(wildcards.dataset),
    output:
        f"{RESULTS}/audit/{{dataset}}/digests.json",
    log:
        f"{RESULTS}/logs/audit/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/audit/{{dataset}}.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=120,
    params:
        code=lambda _: PLAN.code("audit"),
    shell:
        "medheb audit record {wildcards.dataset} > {log} 2>&1"


rule audit:
    """Merkle roots of sources, task files, scores and graded scores, and how everything was made."""
    input:
        digests=PLAN.all_digests(),
        indices=PLAN.all_indices(),
        scores=PLAN.scores(),
        graded=PLAN.graded_scores(),
    output:
        roots=f"{RESULTS}/audit/roots.json",
        provenance=f"{RESULTS}/audit/provenance.json",
    log:
        f"{RESULTS}/logs/audit/roots.log",
    benchmark:
        f"{RESULTS}/benchmarks/audit/roots.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        code=lambda _: PLAN.code("roots"),
    shell:
        "medheb audit roots > {log} 2>&1"
