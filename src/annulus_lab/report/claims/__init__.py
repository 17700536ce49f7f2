"""The papers' claims and their verdicts.

    truth          numbers with 95 % intervals, and what comparisons of them say
    rules          a claim's numbers inside its rule: they compute, and know their text
    selectors      in which metrics files the numbers of a claim are
    claim          one claim: sentence, place in the paper, numbers, rules for its direction and its size
    mutualinfo, mlcpc, eqco, infomin, ring    the claims of each paper
    verdicts       the rule for all claims; each claim's rules applied to the numbers: held, no effect, undecided, ...

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
   printed numbers, on the paper's own `dataset` and scale; leave both out where the paper prints none.
2. `values` says where the numbers are (`selectors`); leave it out where nothing measures them yet. For a new study,
   give the command that writes its files in `report.papers.metrics`. A claim reads CIFAR-10 where it has the rows.
3. The rule is a function of these numbers (`rules`). Two runs are compared by their difference in pairs of a seed and a
   test image (a gain), which a test asserts. Where no gain compares them, they are compared in pairs of a seed, if the
   file has each seed's value (linear_top1_seed70_percent); other numbers as independent ones. A claim of equality names
   how far apart is equal. The page prints the rules beside the verdict.
4. In tests/claim_examples.yaml a claim with `values` has numbers of which it holds, and changes of which it does not.
   A theorem that other tests assert names them in `tested`.
"""
