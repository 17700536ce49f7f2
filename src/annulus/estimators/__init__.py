"""Bounds where the mutual information is known.

Each module uses those above it:

    params         the sections of stages/estimators/params.yaml
    toys           pairs of variables with their information and density ratio
    critics        scores of every x with every y
    bounds         bounds as estimates in nats
    binary         the binary example in closed form
    spread         an estimate's bias and spread over draws of the negatives
    ensembles      several critics trained as one
    conditional    NCE and CNCE by the share that negatives come from, many runs together
"""
