"""The report shows who accepted the terms of each source, and when."""

import json

from make_scores import dataset

from medheb.fetch.terms import record_decision
from medheb.manifest.load import Run
from medheb.report.run import collect_report


def test_page_and_summary_tell_who_accepted_what(run: Run) -> None:
    key = next(iter(run.datasets))
    decision = record_decision(run.layout, run.datasets[key], "Jane <b>Doe</b>")
    collect_report(run)
    page = (run.layout.report / "index.html").read_text()
    assert f"accepted by Jane &lt;b&gt;Doe&lt;/b&gt; on {decision.when[:10]}" in page
    assert decision.digest[:12] in page
    assert "terms not accepted" in page
    terms = json.loads((run.layout.report / "summary.json").read_text())["terms"]
    assert set(terms) == set(run.datasets)
    assert terms[key].startswith("accepted by Jane")


def test_changed_terms_show_in_the_report(run: Run) -> None:
    key = next(iter(run.datasets))
    record_decision(run.layout, dataset(key, access="gated"), "Jane Doe")
    collect_report(run)
    assert "terms changed since Jane Doe accepted them" in (run.layout.report / "index.html").read_text()
