# MedHEB: fetch -> build -> index -> embed -> evaluate -> report, audited. Start with README.md.
from snakemake.utils import min_version

min_version("9.12")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/index.smk"
include: "workflow/rules/embed.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/audit.smk"


localrules:
    all,
    images,
    index,


rule all:
    default_target: True
    """Everything: scores of all models on all tasks, the report, the audit roots."""
    input:
        f"{RESULTS}/report/index.html",
        f"{RESULTS}/audit/roots.json",
        f"{RESULTS}/report/complete.txt" if PLAN.run.config.strict else [],


rule images:
    """Only the rebuilt images."""
    input:
        PLAN.all_inventories(),


rule index:
    """Only the images and task files."""
    input:
        PLAN.all_indices(),
