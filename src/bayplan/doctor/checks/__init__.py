"""One file for each part of an installation; each check takes an `Installation` and gives `Finding`s."""
