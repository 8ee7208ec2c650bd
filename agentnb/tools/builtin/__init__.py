"""Built-in tools, by groups: files, a shell, git, GitHub, the web and the notebook."""
