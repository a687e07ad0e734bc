package config

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// names are those of all settings.
func names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for field := range reflect.TypeFor[Config]().Fields() {
			if name := field.Tag.Get("env"); name != "" && name != "-" && !yield(name) {
				return
			}
		}
	}
}

// misspelt returns a warning for each variable whose name is nearly that of a setting. Its value is not shown.
func misspelt(values map[string]string) (warnings []string) {
	known := slices.Collect(names())
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name, known); meant != "" {
			warnings = append(warnings, fmt.Sprintf("%s is no setting and has no effect: %s is one", name, meant))
		}
	}
	return warnings
}

// nearest returns the setting that name was probably meant to be, or "".
func nearest(name string, known []string) (meant string) {
	name = strings.ToUpper(name)
	least := 3
	for _, setting := range known {
		d := least
		switch {
		case sameWords(name, setting):
			d = 0
		case len(setting) >= 5 && max(len(name), len(setting))-min(len(name), len(setting)) < least:
			d = distance(name, setting)
		}
		// Too many ordinary names are near a short one, or differ from the first letter on.
		if d == 2 && (len(setting) < 9 || !strings.HasPrefix(name, setting[:1])) {
			continue
		}
		if d < least {
			meant, least = setting, d
		}
	}
	return meant
}

// sameWords reports whether a name has the words of a setting, written together, in the other number, or the last one
// longer: JWTSECRET, TRUSTED_PROXY, LISTEN_ADDRESS.
func sameWords(name, setting string) bool {
	plain := strings.NewReplacer("_", "", "-", "", ".", "")
	singular := func(s string) string {
		if stem, ok := strings.CutSuffix(s, "IES"); ok {
			return stem + "Y"
		}
		return strings.TrimSuffix(s, "S")
	}
	if name = strings.NewReplacer("-", "_", ".", "_").Replace(name); len(setting) < 5 {
		return name == setting
	}
	if rest, ok := strings.CutPrefix(name, setting); ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' {
		return true
	}
	return plain.Replace(name) == plain.Replace(setting) || singular(name) == singular(setting)
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
