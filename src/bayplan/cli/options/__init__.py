"""What commands accept: options that several of them share, flags in the forms of kubectl and Go, and their files."""
