# MedHEB: fetch -> build -> index -> embed -> evaluate -> report, audited. Start with README.md.
from snakemake.utils import min_version

from medheb.driver import run_starts

min_version("9.12")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/index.smk"
include: "workflow/rules/embed.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/graded.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/audit.smk"


# `medheb resume` must know whether the Snakemake that left a lock still runs.
onstart:
    run_starts(logger.warning)


# Everything: scores of all models on all tasks, the report, the audit roots. Steps in between are listed
# too: Snakemake would not notice that one of them was deleted.
rule all:
    default_target: True
    input:
        PLAN.steps_between(),
        f"{RESULTS}/report/index.html",
        f"{RESULTS}/audit/roots.json",
        f"{RESULTS}/report/complete.txt" if PLAN.run.config.strict else [],
    localrule: True


# Only the rebuilt images.
rule images:
    input:
        PLAN.all_inventories(),
    localrule: True


# Only the images and task files.
rule index:
    input:
        PLAN.all_indices(),
    localrule: True
