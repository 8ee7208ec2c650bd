"""Operations on recorded runs: diff, replay, fork, reproduce, undo."""
