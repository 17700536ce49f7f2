"""Which bound: scores to nats. No device, no random numbers, no memory.

Scores are similarities divided by the temperature, a row per query; a score of -inf is absent and counts nowhere.
Positives are the columns that a query should find: first its own, then its neighbours. Every loss is in nats, a mean
over queries. Its ceiling is its value when all scores are equal. Ceiling minus loss estimates the mutual information:
0 at chance, and at most the ceiling.
"""

from annulus.bounds.alpha import cpc, mlcpc
from annulus.bounds.infonce import InfoNCE, infonce  # the name is the function from here on, no longer its module

__all__ = ["InfoNCE", "cpc", "infonce", "mlcpc"]
