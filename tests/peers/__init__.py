"""Other systems' own code, asked live: any number of unseen cases, any version, and side-by-side measurements."""
