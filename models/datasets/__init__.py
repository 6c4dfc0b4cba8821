"""Public data sets as wire types. Importing reads nothing; each is fetched when it is asked for."""
