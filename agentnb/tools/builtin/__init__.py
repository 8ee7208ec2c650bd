"""Built-in tools in groups: files, shell, git, GitHub, web and notebook."""
