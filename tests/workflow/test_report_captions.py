"""`snakemake --report`: every output that a reader opens is in it, with a caption that exists and a category."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "workflow" / "rules"
RULE = (RULES / "report.smk").read_text()


def test_every_caption_exists_and_every_file_of_captions_is_used() -> None:
    named = {(RULES / name).resolve() for name in re.findall(r'caption="([^"]+)"', RULE)}
    (workflow,) = re.findall(r'^report: "([^"]+)"$', (ROOT / "Snakefile").read_text(), flags=re.MULTILINE)
    assert named | {ROOT / workflow} == set((ROOT / "workflow" / "report").glob("*.rst"))
    for path in named:
        assert len(path.read_text().split()) > 8, path.name


def test_all_outputs_but_machine_readable_folders_have_a_caption_and_a_category() -> None:
    output = re.search(r"    output:\n(.*?)\n    log:", RULE, flags=re.DOTALL)
    assert output is not None
    entries = dict(re.findall(r"^        (\w+)=(.*?)(?=^        \w+=|\Z)", output[1], flags=re.MULTILINE | re.DOTALL))
    tables = {"leaderboard", "tasks", "quality", "quality_json", "summary", "tables"}
    assert set(entries) == {"page", *tables, "figures", "mteb"}
    for name, text in entries.items():
        if name != "mteb":
            assert text.startswith("report("), name
            assert "caption=" in text, name
            assert "category=" in text, name


def test_the_report_is_made_again_when_a_published_table_or_a_graded_score_changes() -> None:
    given = re.search(r"    input:\n(.*?)\n    output:", RULE, flags=re.DOTALL)
    assert given is not None
    for part in ("PLAN.scores()", "PLAN.graded_scores()", "PLAN.published()"):
        assert part in given[1]
