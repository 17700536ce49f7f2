"""Networks, and the features that frozen networks give."""

from annulus.late import late

__all__, __getattr__, __dir__ = late(__name__)
