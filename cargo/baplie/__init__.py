"""Bay plans as UN/EDIFACT BAPLIE files, the form every ship and terminal has them in: reading them into load lists, and writing them."""
