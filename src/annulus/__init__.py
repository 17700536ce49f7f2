"""annulus: contrastive learning of visual representations as estimation of mutual information.

Modules in the order in which data flows through them; each imports only from those above it:

    errors         what a user wrote or supplied cannot work
    config         what params.yaml may hold, as strict models
    params_file    reading it; faults as sentences
    device         where tensors live
    rng            every random draw comes from a generator derived from `seed`
    results        files that are either whole or untouched; metrics as small JSON
    packed         one file of tensors
    scratch        resume state of a killed stage
    tracking       the same numbers in MLflow (mlflow_sender: the process that sends them)
    stage          what every stage script shares: arguments, parameters, errors, results
    data           image sets, packed into one file per split
    views          augmentations of whole batches
    encoders       backbones and heads
    evals          features, nearest neighbours, linear probe
    memory         one stored embedding per image
    clusters       k-means of the memory
    negatives      which stored embeddings stand against the positive
    annealing      how the negatives get harder during training
    bounds         scores to nats
    methods        encoder + memory + negatives + bound
    schedules      the learning rate over training
    training       the loop
"""
