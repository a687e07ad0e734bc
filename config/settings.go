package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
)

const masked = "xxxxx" // as url.URL.Redacted writes it

// Settings returns the effective value of each setting by its name, with secrets masked.
func (c *Config) Settings() map[string]string {
	all := make(map[string]string)
	value := reflect.ValueOf(*c)
	for field, v := range value.Fields() {
		name := field.Tag.Get("env")
		if name == "" || name == "-" {
			continue
		}
		text := fmt.Sprint(v.Interface())
		if list, ok := v.Interface().([]string); ok {
			text = strings.Join(list, ",")
		}
		all[name] = mask(name, text)
	}
	if len(c.ListenAddrs) > 0 {
		all["LISTEN_ADDR"] = strings.Join(c.ListenAddrs, ",")
	}
	return all
}

// mask hides a secret: all of a key, or the passwords in a database's URL.
func mask(name, text string) string {
	switch {
	case strings.HasSuffix(name, fileSuffix) && isNoPath(text):
		return masked
	case (strings.HasSuffix(name, "_SECRET") || strings.HasSuffix(name, "_TOKEN")) && text != "":
		return masked + strings.Repeat(","+masked, strings.Count(text, ","))
	case name == "WORLD_ACCESS_URL" && strings.ContainsAny(text, "?@"):
		return masked // its query may be a key
	case name == "DATABASE_URL" && !strings.HasPrefix(text, "sqlite:"):
		u, err := url.Parse(text)
		if err != nil || u.Host == "" && u.Opaque != "" || strings.Contains(u.Path+u.RawQuery, "@") {
			return masked // a slash or a question mark of the password ends the host
		}
		query := u.Query()
		for name := range query {
			if strings.Contains(strings.ToLower(name), "password") {
				query.Set(name, masked)
			}
		}
		u.RawQuery = query.Encode()
		return u.Redacted()
	}
	return text
}
