"""Networks, and the features that frozen networks give."""

from typing import TYPE_CHECKING

from annulus.late import late

if TYPE_CHECKING:
    from annulus.encoders.config import EncoderConfig
    from annulus.encoders.encoder import build_encoder, load_encoder, save_encoder
    from annulus.encoders.extract import extract_features
    from annulus.encoders.features import Features, load_features, save_features
    from annulus.encoders.module_encoder import ModuleEncoder
else:
    _HOMES = {
        "config": "EncoderConfig",
        "encoder": "build_encoder load_encoder save_encoder",
        "extract": "extract_features",
        "features": "Features load_features save_features",
        "module_encoder": "ModuleEncoder",
    }
    __getattr__, __dir__ = late(__name__, _HOMES)

__all__ = [
    "EncoderConfig",
    "Features",
    "ModuleEncoder",
    "build_encoder",
    "extract_features",
    "load_encoder",
    "load_features",
    "save_encoder",
    "save_features",
]
