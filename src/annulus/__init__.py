"""annulus: contrastive learning of visual representations as estimation of mutual information.

Modules in the order in which data flows through them; each imports only from those above it:

    errors         what a user wrote or supplied cannot work
    config         what params.yaml may hold, as strict models
    params_file    reading it; faults as sentences
    study          many variants of it, each a short dict
    device         where tensors live
    distributed    several processes as one
    rng            every random draw comes from a generator derived from `seed`
    results        files that are either whole or untouched; metrics as small JSON
    packed         one file of tensors
    scratch        resume state of a killed stage
    workers        several computations at a time, one core each
    tracking       the same numbers in MLflow (mlflow_sender: the process that sends them)
    provenance     where and when a stage ran, for the report
    stage          what every stage script shares: arguments, parameters, errors, results
    data           image sets, packed into one file per split
    views          augmentations of whole batches
    batchnorm      statistics over groups of a batch, or over all processes
    encoders       backbones and heads
    momentum       an encoder that follows another slowly
    schedules      the learning rate
    evals          features, nearest neighbours, linear probe
    memory         a stored embedding per image (bank), or the last keys (queue)
    clusters       k-means of embeddings
    negatives      which columns of the memory stand against the positive
    neighbours     which stand with it
    annealing      how the negatives get harder during training
    bounds         scores to nats
    partition      the normaliser of the original objectives
    witness        how a query and a stored embedding are scored together
    contrast       queries against one memory: negatives, neighbours and bound put together
    methods        who holds the keys: ir, cmc, moco, simclr, simo
    snapshots      embeddings of the same few images over pretraining
    training       the loop
    experiment     from parameters and images to a training run
    trials         whole runs in memory, several at a time
    estimates      bias and spread of an estimate with the encoder held fixed
    audit          who is in the samplers' sets, by labels that no sampler sees
    diagnostics    what snapshots say of embeddings and negatives
    picks          a few queries and what lies beside them, for looking at
    estimators     toys whose information is known, critics, and bounds without images
    report         whatever was measured as one page, beside the papers
"""
