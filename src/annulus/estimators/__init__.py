"""Bounds where the mutual information is known.

Each module uses those above it:

    toys           pairs of variables with their information and density ratio
    critics        what scores every x with every y
    values         bounds as estimates in nats
    binary         the binary example in closed form
    fitting        several critics trained as one
    conditional    NCE and CNCE by the share that negatives come from, many runs together
"""
