"""The papers' claims and their verdicts.

    truth          numbers with 95 % intervals; truth values of their comparisons
    rules          terms of a claim's rule: values, and the text that the page prints
    selectors      metrics files, columns and rows of a claim's numbers
    claim          one claim: sentence, place in the paper, numbers, rules for its direction and its size
    mutualinfo, mlcpc, eqco, infomin, ring    the claims of each paper
    verdicts       each claim's rules applied to its numbers: held, no effect, undecided, ...

A new claim is one entry in its paper's file, and its test:

    Claim(
        "ring.beats-moco",
        "Ring negatives improve MoCo on CIFAR10, by 3.0 points.",
        lambda gain: gain > 0,
        where=["ring.table1a"],
        size=lambda gain: gain.near(3.0),
        dataset=["CIFAR10"],
        values={
            "gain": estimate(
                "cifar10_algorithms/table.csv", "here_gain_percent", table="ring.table1a", method="MoCoRing"
            )
        },
    ),

1. `where` names tables and figures of published.yaml. The direction is decided on any data set. `size` compares with
   printed numbers, on the paper's own `dataset` and scale. Leave both out if the paper prints no number.
2. `values` selects the numbers (`selectors`). Leave it out if nothing measures them yet. For a new study, give the
   command that writes its files in `report.papers.metrics`. A claim reads CIFAR-10 if that has the rows.
3. The rule is a function of these numbers (`rules`). It compares two runs by a gain: their difference in pairs of a
   seed and a test image. A test asserts this. Without a gain it compares them in pairs of a seed, if the file has each
   seed's value (linear_top1_seed70_percent). It compares other numbers as independent ones. A claim of equality names
   the largest difference that counts as equal. The page prints the rules beside the verdict.
4. In tests/claim_examples.yaml a claim with `values` has numbers that satisfy its rule, and changes that break it.
   A theorem lists the tests that assert it in `tests`.
"""
