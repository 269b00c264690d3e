"""Reports in the forms of other agents: NFD's, RTE's and Volcano's."""
