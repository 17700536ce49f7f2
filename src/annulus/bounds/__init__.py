"""Scores to nats. Pure functions: no device, no random numbers, no memory.

Scores are similarities already divided by the temperature, a row per query; an entry of -inf is absent, and counts
nowhere. Positives are what a query should find, the first or only one being its own row or other view; further ones
are its neighbours. Every loss is in nats, mean over queries, and each has a ceiling: its value when all scores are
equal. Ceiling minus loss is the estimate of mutual information, so at chance it is 0; it is at most the ceiling.

Source: van den Oord et al. 2018; papers/mutualinfo, ring, mlcpc, eqco.
"""
