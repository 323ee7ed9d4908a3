# report: one page, whatever could be had and whatever could not


rule collect_report:
    """Tables, figures and the page."""
    input:
        scores=PLAN.scores(),
    output:
        page=f"{RESULTS}/report/index.html",
        leaderboard=f"{RESULTS}/report/leaderboard.csv",
        tasks=f"{RESULTS}/report/tasks.csv",
        summary=f"{RESULTS}/report/summary.json",
    log:
        f"{RESULTS}/logs/report.log",
    benchmark:
        f"{RESULTS}/benchmarks/report.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        settings=lambda _: PLAN.report_settings(),
        code=lambda _: PLAN.code("report"),
    shell:
        "medheb report > {log} 2>&1"


rule require_complete:
    """With strict: true, end with an error if any cell is missing. The report is kept."""
    input:
        f"{RESULTS}/report/summary.json",
    output:
        f"{RESULTS}/report/complete.txt",
    log:
        f"{RESULTS}/logs/complete.log",
    benchmark:
        f"{RESULTS}/benchmarks/complete.tsv"
    localrule: True
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=5,
    shell:
        "medheb require-complete {output} > {log} 2>&1"
