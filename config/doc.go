// Package config reads the settings, each once: its name, its default and its meaning stand beside the field of Config.
//
// It asks neither a database nor the network. No other package reads the environment. Only the packages that start the process get a
// Config: they copy what a part needs into its options. No error, warning or Settings shows a secret.
//
// Load and Inspect go through these steps. Each finds all that is wrong, so that an operator fixes everything at once:
//
//	.env  ->  environment  ->  files of *_FILE  ->  types  ->  validate          ->  warnings
//	(dotenv)  (wins)           (secretfile)         (parse)    (tables of checks)    (allowed, but rarely meant)
//
// The function of a table also fills in the fields that are computed: Base from BASE_URL, Keys from JWT_SECRET.
package config
