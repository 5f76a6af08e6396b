"""Numbers that say how much each logged step looks like the demonstrations, found before training.

An algorithm names the ones that it wants (`Algorithm.scored_by`). Its own equations turn them into
rewards or weights, because these depend on hyperparameters in which runs may differ.
"""
