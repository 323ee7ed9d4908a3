"""What each kind of host needs from the user: a token, an optional client, an own copy. Looks, never asks a host.

Secrets are only looked for: their values are neither returned nor kept.
"""

from __future__ import annotations

import netrc
import os
import stat
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import get_token

from medheb.fetch.credentials import secret
from medheb.manifest.dataset import AccessClass, Dataset
from medheb.manifest.hosts import GitHubHost, Host, HttpsHost, PhysioNetHost
from medheb.manifest.load import Run

# Hosts that nothing is ever fetched from.
OWN_COPY_ONLY = {"physionet", "academic_torrents"}
INSTALL = "Install it with: pip install -r envs/hubs.txt"


@dataclass(frozen=True)
class Need:
    """What is missing and the one thing to do."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class Token:
    """Where a host's client looks for its token. All variables of one group together make a token.

    Args:
        host: name for messages.
        variables: groups of environment variables.
        machine: user of the keyring entry (service ``medheb``).
        files: files of the host's own tools, from the home folder.
        page: where a token is made.
    """

    host: str
    variables: tuple[tuple[str, ...], ...]
    machine: str
    files: tuple[str, ...]
    page: str


KAGGLE = Token(
    "Kaggle",
    (("KAGGLE_API_TOKEN",), ("KAGGLE_USERNAME", "KAGGLE_KEY")),
    "www.kaggle.com",
    (".kaggle/access_token", ".kaggle/access_token.txt", ".kaggle/kaggle.json"),
    "https://www.kaggle.com/settings",
)
TOKENS: dict[str, Token] = {
    "huggingface": Token(
        "Hugging Face",
        (("HF_TOKEN",), ("HUGGING_FACE_HUB_TOKEN",)),
        "huggingface.co",
        (),
        "https://huggingface.co/settings/tokens",
    ),
    "kaggle_dataset": KAGGLE,
    "kaggle_competition": KAGGLE,
    "synapse": Token(
        "Synapse",
        (("SYNAPSE_AUTH_TOKEN",),),
        "www.synapse.org",
        (".synapseConfig",),
        "https://www.synapse.org/PersonalAccessTokens:",
    ),
    "modelscope": Token(
        "ModelScope",
        (("MODELSCOPE_API_TOKEN",),),
        "www.modelscope.cn",
        (),
        "https://modelscope.cn/my/myaccesstoken",
    ),
}
# Classes whose sources these hosts give to anybody.
WITHOUT_TOKEN: dict[str, frozenset[AccessClass]] = {
    "huggingface": frozenset({"open", "registration"}),
    "modelscope": frozenset({"open", "registration", "restricted"}),
}
# Module and distribution of the optional library that a client uses.
CLIENTS: dict[str, tuple[str, str]] = {
    "kaggle_dataset": ("kagglesdk", "kagglesdk"),
    "kaggle_competition": ("kagglesdk", "kagglesdk"),
    "synapse": ("synapseclient", "synapseclient"),
    "google_drive": ("gdown", "gdown"),
    "modelscope": ("modelscope_hub", "modelscope-hub"),
}


def host_need(dataset: Dataset, host: Host) -> Need | None:
    """What stands in the way of fetching a source from one of its hosts, as far as this machine can tell."""
    if isinstance(host, PhysioNetHost):
        slugs = " and ".join(project.slug for project in (host, *dataset.also))
        what, folder = (slugs, "folder that holds both") if dataset.also else ("it", "folder")
        return Need(
            "needs your own copy, which is verified and never fetched",
            f"Get {what} from PhysioNet as a credentialed user, then set 'local_copies: {{{dataset.id}: <{folder}>}}'",
        )
    if host.kind == "portal":
        # Here, because every dry run asks for needs and the clients of hosts are slow to import.
        from medheb.fetch.hosts.portal import NAMES, variable_of

        if os.environ.get(variable_of(dataset), "").strip():
            return None
        return Need(
            f"{NAMES[host.name]} hands out its files in person only",
            f"Get them from {host.page}, then set 'local_copies: {{{dataset.id}: <folder>}}', "
            f"or {variable_of(dataset)} to the link that it gives",
        )
    if host.kind == "academic_torrents":
        return Need(
            "only a torrent is known, which is never fetched",
            f"Fetch it yourself, then set 'local_copies: {{{dataset.id}: <folder>}}'",
        )
    if isinstance(host, GitHubHost) and host.commit is None:
        return Need("its manifest pins no commit", f"Set host.commit in the manifest of {dataset.id}")
    if isinstance(host, HttpsHost | GitHubHost) and not dataset.files:
        return Need(
            "nobody has listed its files yet",
            f"Get them from {dataset.links[0]}, then set 'local_copies: {{{dataset.id}: <folder>}}'",
        )
    return client_need(host.kind) or token_need(dataset, host.kind)


def is_own_copy(run: Run, dataset: Dataset) -> bool:
    """True if a source is verified where the user has it: nothing is fetched from its hosts, or a copy is named."""
    kinds = {host.kind for host in (dataset.host, *dataset.mirrors)}
    return dataset.id in run.config.local_copies or kinds <= OWN_COPY_ONLY


def client_need(kind: str) -> Need | None:
    """The optional library that a kind of host needs, if it is not installed."""
    if kind not in CLIENTS:
        return None
    module, distribution = CLIENTS[kind]
    return None if find_spec(module) else Need(f"needs the optional client {distribution}", INSTALL)


def needs_token(dataset: Dataset, kind: str) -> bool:
    """True if this source cannot be had from such a host without a token."""
    return kind in TOKENS and dataset.access not in WITHOUT_TOKEN.get(kind, ())


def token_need(dataset: Dataset, kind: str) -> Need | None:
    """The token that a source needs, if none can be found, or others could read it."""
    if not needs_token(dataset, kind):
        return None
    token = TOKENS[kind]
    if token_place(kind) is None:
        names = " and ".join(token.variables[0])
        return Need(f"no {token.host} token was found", f"Make one at {token.page} and set {names}")
    if not _variables_set(token):
        for path in _files_of(token):
            if _open_to_others(path):
                return Need(f"the {token.host} token in ~/{path.name} can be read by others", f"Run: chmod 600 {path}")
    return None


def token_place(kind: str) -> str | None:
    """Where the token of a kind of host stands, in words; None if there is none. Its value is not looked at."""
    token = TOKENS[kind]
    if names := _variables_set(token):
        return f"environment ({', '.join(names)})"
    if kind == "huggingface" and get_token() is not None:
        return "the file of `hf auth login`"
    if secret(token.variables[0][0], token.machine):
        return "the keyring"
    files = _files_of(token)
    return f"~/{files[0].relative_to(Path.home())}" if files else None


def _variables_set(token: Token) -> tuple[str, ...]:
    groups = (group for group in token.variables if all(os.environ.get(name, "").strip() for name in group))
    return next(groups, ())


def _files_of(token: Token) -> list[Path]:
    paths = (Path.home() / name for name in token.files)
    return [path for path in paths if path.is_file() and path.stat().st_size > 0]


def _open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO))


def netrc_path() -> Path:
    """The user's netrc file, ``NETRC`` or ``~/.netrc``."""
    return Path(os.environ.get("NETRC") or Path.home() / ".netrc")


def netrc_need() -> Need | None:
    """What is wrong with the netrc file; None if nothing is, or there is none."""
    path = netrc_path()
    if not path.exists():
        return None
    if _open_to_others(path):
        return Need("the netrc file can be read by others, so it is not used", f"Run: chmod 600 {path}")
    try:
        netrc.netrc(path)
    except netrc.NetrcParseError as error:
        return Need(f"the netrc file is wrong at line {error.lineno}", f"Correct {path}")
    except OSError as error:
        return Need(f"the netrc file cannot be read ({error.strerror})", f"Check the rights of {path}")
    return None


def local_copy_need(run: Run, dataset: Dataset) -> Need | None:
    """What is wrong with the folder or archive that the configuration names for a source."""
    path = Path(run.config.local_copies[dataset.id]).expanduser()
    remedy = f"Correct 'local_copies: {dataset.id}' in the configuration"
    if not path.exists():
        return Need("its local copy does not exist", remedy)
    readable = os.access(path, os.R_OK | os.X_OK) if path.is_dir() else os.access(path, os.R_OK)
    if not readable:
        return Need("its local copy cannot be read", f"Check the rights of the path under 'local_copies: {dataset.id}'")
    if path.is_dir() and next(path.iterdir(), None) is None:
        return Need("its local copy is empty", remedy)
    return None
