"""Run roc-validator on a crate without network: ``python validate_crate.py PROFILE CRATE``, with its own Python.

The JSON-LD context of RO-Crate 1.1, which the validator would fetch, comes from the package ``rocrate``. Whatever else
it asks the network for is refused. Ends with 0 if the crate conforms; prints what does not.
"""

import io
import json
import sys
from importlib.resources import files
from urllib.error import URLError

import rdflib.parser
from rocrate_validator.services import validate
from rocrate_validator.utils.http import HttpRequester

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
TEXT = (files("rocrate") / "data" / "ro-crate.jsonld").read_bytes()
TYPE = {"Content-Type": "application/ld+json"}


class Answer(io.BytesIO):
    """The context as requests and as urllib give it."""

    status_code = status = 200
    headers = TYPE
    text = TEXT.decode()
    url = CONTEXT

    def json(self) -> object:
        """The context."""
        return json.loads(TEXT)

    def info(self) -> dict[str, str]:
        """Headers."""
        return TYPE

    def geturl(self) -> str:
        """Where it lies."""
        return CONTEXT


def answer(url: str, **_: object) -> Answer:
    """The context, or a refusal."""
    if url != CONTEXT:
        raise URLError(f"no network in tests: {url}")
    return Answer(TEXT)


HttpRequester.get = lambda self, url, **options: answer(url, **options)
rdflib.parser._urlopen = lambda request: answer(request.full_url)

profile, crate = sys.argv[1:]
result = validate({"rocrate_uri": crate, "profile_identifier": profile, "requirement_severity": "REQUIRED"})
for issue in result.get_issues():
    print(f"{issue.check.identifier}: {issue.message}")
sys.exit(not result.passed())
