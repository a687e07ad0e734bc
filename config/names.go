package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// misspelt returns a warning for each variable whose name is nearly that of a setting. Its value is not shown.
func (c *Config) misspelt() (warnings []string) {
	known := slices.Sorted(maps.Keys(c.Settings()))
	for _, name := range slices.Sorted(maps.Keys(c.given)) {
		if slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name, known); meant != "" {
			warnings = append(warnings, fmt.Sprintf("%s is no setting and has no effect: %s is one", name, meant))
		}
	}
	return warnings
}

// spelling is of names that count as one, besides those a letter or two away: TRUSTED_PROXY, LISTEN_ADDRESS.
var spelling = strings.NewReplacer("PROXIES", "PROXY", "ADDRESS", "ADDR")

// nearest returns the setting that name was probably meant to be, or "".
func nearest(name string, known []string) (meant string) {
	name = spelling.Replace(strings.ToUpper(name))
	least := 3
	for _, setting := range known {
		spelt := spelling.Replace(setting)
		if longer := len(name) - len(spelt); max(longer, -longer) >= least {
			continue // most are, and a start would take a tenth more time
		}
		d := distance(name, spelt)
		// Too many ordinary names are near a short one, or differ from the first letter on.
		if d > 0 && len(setting) < 5 || d > 1 && (len(setting) < 9 || !strings.HasPrefix(name, setting[:1])) {
			continue
		}
		if d < least {
			meant, least = setting, d
		}
	}
	return meant
}

// distance is the number of letters to insert, delete, replace or exchange with their neighbour to make one text of the
// other (the optimal string alignment distance).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
