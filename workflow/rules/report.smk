# report: one page, whatever could be had and whatever could not


rule collect_report:
    """Tables, figures and the page."""
    input:
        scores=PLAN.scores(),
        graded=PLAN.graded_scores(),
        published=PLAN.published(),
    output:
        page=report(
            f"{RESULTS}/report/index.html",
            caption="../report/page.rst",
            category="Report",
        ),
        leaderboard=report(
            f"{RESULTS}/report/leaderboard.csv",
            caption="../report/leaderboard.rst",
            category="Report",
        ),
        tasks=report(
            f"{RESULTS}/report/tasks.csv",
            caption="../report/tasks.rst",
            category="Report",
        ),
        quality=report(
            f"{RESULTS}/report/quality.csv",
            caption="../report/quality.rst",
            category="Report",
        ),
        quality_json=report(
            f"{RESULTS}/report/quality.json",
            caption="../report/quality.rst",
            category="Report",
        ),
        summary=report(
            f"{RESULTS}/report/summary.json",
            caption="../report/summary.rst",
            category="Report",
        ),
        tables=report(
            directory(f"{RESULTS}/report/tables"),
            patterns=["{name}.csv"],
            caption="../report/tables.rst",
            category="Tables",
        ),
        figures=report(
            directory(f"{RESULTS}/report/figures"),
            patterns=["{name}.svg"],
            caption="../report/figures.rst",
            category="Figures",
        ),
        # Beside these: gallery/, but only where not all examples fit the page.
        mteb=directory(f"{RESULTS}/report/mteb"),
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
