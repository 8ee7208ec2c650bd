"""Tools that a model may call. Functions of the notebook are tools too."""
