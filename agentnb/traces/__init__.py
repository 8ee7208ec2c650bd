"""Import paths of earlier versions. Each warns and names its successor; they go with 0.2."""
