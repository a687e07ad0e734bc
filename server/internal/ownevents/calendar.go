package ownevents

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"worldevents/models"
)

// calendar serves one of the user's events as a file for calendars (RFC 5545), with a name that ends in ".ics".
func (s *Service) calendar(c echo.Context) error {
	name, isFile := strings.CutSuffix(c.Param("name"), ".ics")
	id, err := models.ParseID(name)
	if !isFile || err != nil {
		return echo.ErrNotFound
	}
	v, err := s.visitorOf(c)
	if err != nil {
		return err
	}
	event, err := s.Store.FindAttended(c.Request().Context(), v.UserID, named(c, id.String()))
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="event.ics"`)
	const utc = "20060102T150405Z"
	return c.Blob(http.StatusOK, "text/calendar; charset=utf-8", contentLines(
		"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//worldevents//EN", "BEGIN:VEVENT",
		"UID:"+event.ID.String(), "DTSTAMP:"+s.Pages.Now().UTC().Format(utc), "DTSTART:"+event.ScheduledAt.UTC().Format(utc),
		"SUMMARY:"+calendarText(event.Name), "DESCRIPTION:"+calendarText(event.Description),
		"END:VEVENT", "END:VCALENDAR"))
}

// calendarText escapes a text (section 3.3.11).
var calendarText = strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`).Replace

// contentLines folds lines between characters, to 75 octets at most (section 3.1).
func contentLines(lines ...string) (file []byte) {
	for _, line := range lines {
		length := 0
		for _, r := range line {
			if length+utf8.RuneLen(r) > 75 {
				file = append(file, "\r\n "...)
				length = 1
			}
			file = utf8.AppendRune(file, r)
			length += utf8.RuneLen(r)
		}
		file = append(file, "\r\n"...)
	}
	return file
}
