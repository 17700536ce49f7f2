"""Encoders to and from a repository of the Hugging Face Hub; needs huggingface_hub."""

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from annulus.encoders.module_encoder import AnyEncoder
from annulus.encoders.saved import load_encoder
from annulus.errors import InputError
from annulus.export.card import About
from annulus.export.folder import write_hub
from annulus.files.weights import FOLDER_CONFIG, FOLDER_WEIGHTS


def push_to_hub(
    encoder: AnyEncoder,
    repository: str,
    *,
    network: str | None = None,
    licence: str = "",
    private: bool | None = None,
    token: str | None = None,
) -> str:
    """Uploads an encoder and its model card to a repository of the Hub, which is made if it is missing.

    `repository`: "NAME/REPOSITORY". `network` names the network of a `ModuleEncoder`, as for `annulus.save_encoder`.
    `licence`: of the weights, by the Hub's name. `private`: of a new repository; None: the account's default. `token`:
    None: the token that `hf auth login` stored. HF_ENDPOINT sets the server. Returns the commit's address.

    Raises:
        InputError: if huggingface_hub is not installed; if the Hub refuses the upload or does not answer; for a network
            that its name does not build.

    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> encoder = annulus.build_encoder(config, seed=0)
    >>> annulus.push_to_hub(encoder, "NAME/REPOSITORY", licence="mit")  # doctest: +SKIP
    'https://huggingface.co/NAME/REPOSITORY/commit/0123456789abcdef0123456789abcdef01234567'
    """
    _require()
    from huggingface_hub import HfApi

    api = HfApi(token=token, library_name="annulus")
    with TemporaryDirectory() as temporary:
        write_hub(encoder, Path(temporary), About(licence=licence), network)
        try:
            name = api.create_repo(repository, private=private, exist_ok=True).repo_id
            commit = api.upload_folder(repo_id=name, folder_path=temporary, commit_message="Encoder of annulus")
        except Exception as error:
            raise _refused(error, repository, "did not take the encoder") from error
    return str(commit)


def from_pretrained(
    repository: str, *, revision: str | None = None, token: str | None = None, trust: bool = False
) -> AnyEncoder:
    """Downloads an encoder of annulus from a repository of the Hub, as `load_encoder` returns it.

    `revision`: a branch, tag or commit; None: the main branch. `trust`: execute the function whose import path the
    configuration names, as for `annulus.load_encoder`. The download itself contains no code.

    Raises:
        InputError: if huggingface_hub is not installed; if the repository does not exist or the Hub does not answer;
            for a repository without an encoder of annulus; for an import path without `trust`.

    >>> encoder = annulus.from_pretrained("NAME/REPOSITORY")  # doctest: +SKIP
    """
    _require()
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            repository,
            revision=revision,
            token=token,
            allow_patterns=[FOLDER_WEIGHTS, FOLDER_CONFIG],
            library_name="annulus",
        )
    except Exception as error:
        raise _refused(error, repository, "gave no encoder") from error
    return load_encoder(folder, trust)


def _require() -> None:
    if find_spec("huggingface_hub") is None:
        raise InputError("the Hub needs huggingface_hub; pip install huggingface_hub")


def _refused(error: Exception, repository: str, fault: str) -> InputError:
    """Error sentence for an error of the network, the server or a name."""
    return InputError(
        f"{repository}: the Hub {fault} ({type(error).__name__}: {' '.join(str(error).split())[:300]}); look at the "
        "name, and at `hf auth login` for what is private or written"
    )
