"""Networks, and features from frozen networks."""

from annulus.late import late

__all__, __getattr__, __dir__ = late(__name__)
