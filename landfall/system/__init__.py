"""Files, threads, addresses and settings, as all packages use them."""
