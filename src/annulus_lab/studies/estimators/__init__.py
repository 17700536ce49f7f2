"""Bounds on toys whose mutual information is known.

Each module uses those above it:

    estimators_params  the sections of stages/estimators/params.yaml
    toys               pairs of variables with their information and density ratio
    critics            scores of every x with every y
    bounds             bounds as estimates in nats
    ensembles          several critics trained as one
    spread             an estimate's bias and spread over draws of the negatives
    binary             the binary example, in closed form and by simulation
    gaussians          InfoNCE and EqCo with trained critics
    staircase          CPC and ML-CPC with information that rises in steps
    supremum           upper limit of CNCE, by the share of the points that give negatives
    conditional        NCE and CNCE by the share of the points that give negatives, many runs together
    ideal              every bound with the ideal critic
    theorems           the Ring paper's theorems with the ideal critic
"""
