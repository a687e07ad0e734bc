package config

import "fmt"

// faults are what is wrong with settings, in the order in which they are looked at.
type faults []error

// add notes what is wrong with a setting.
func (f *faults) add(setting, format string, args ...any) {
	*f = append(*f, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
}

// require notes what a setting must be, unless it is.
func (f *faults) require(setting string, met bool, format string, args ...any) {
	if !met {
		f.add(setting, format, args...)
	}
}
