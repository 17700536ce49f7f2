"""The papers' claims and their verdicts.

    truth          numbers with 95 % intervals, and what comparisons of them say
    rules          a claim's numbers inside its rule: they compute, and know their text
    selectors      where the numbers of a claim are under metrics/
    claim          one claim: sentence, place in the paper, numbers, rule
    mutualinfo, mlcpc, eqco, infomin, ring    the claims of each paper
    verdicts       each claim's rule applied to the numbers: held, did not hold, undecided, not run, ...

A new claim is one entry in its paper's file, and its test:

    Claim(
        "ring.beats-moco",
        "Ring negatives improve MoCo on CIFAR10, by 3.0 points.",
        lambda gain: gain > 0,
        where=["ring.table1a"],
        scale="paper",
        dataset=["CIFAR10"],
        values={
            "gain": estimate(
                "cifar10_algorithms/table.csv", "here_gain_percent", table="ring.table1a", method="MoCoRing"
            )
        },
    ),

1. `where` names tables and figures of results.yaml. `scale` and `dataset` say where the numbers are conclusive; leave
   them out where they are so everywhere.
2. `values` says where the numbers are (annulus.report.claims.selectors); leave it out where nothing measures them yet.
   For a new study, give the command that writes its files in annulus.report.papers.metrics.
3. The rule is a function of these numbers (annulus.report.claims.rules). Two runs are compared by their difference in
   pairs of a seed and a test image (a gain); other numbers as independent ones. A claim of equality names how far apart
   is equal. The page prints the rule beside the verdict.
4. In tests/claim_examples.yaml a claim with `values` has numbers of which it holds, and changes of which it does not.
   A theorem that other tests assert names them in `tested`.
"""
