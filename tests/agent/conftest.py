"""What stands beside this file (`runs_by_hand`, `todo_runs`) can be imported by the tests in the folders below too."""
