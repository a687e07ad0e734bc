// Command plot draws what bench has measured. It is a module of its own, so that what drawing needs (fonts, images,
// LaTeX) is no requirement of the service.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// results is what this needs of bench's JSON.
type results struct {
	Rows   []row
	Growth []struct {
		Server, Split   string
		RSVPs           int
		Seconds, PeakMB float64
	}
}

type row struct {
	Work  string
	Sides []struct {
		Name string
		Rate float64
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run() error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: plot results.json folder")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	if err := rates(r, filepath.Join(os.Args[2], "rates.svg")); err != nil {
		return err
	}
	return growth(r, filepath.Join(os.Args[2], "growth.svg"))
}

// The colours of Okabe and Ito: told apart by everybody, and on paper.
var (
	blue   = color.NRGBA{0, 114, 178, 255}
	orange = color.NRGBA{230, 159, 0, 255}
)

// rates draws requests a second side by side, at the usual number of connections: the service, and what it is set against.
func rates(r results, path string) error {
	p := plot.New()
	p.Title.Text = "Requests per second (logarithmic), more is better"
	p.X.Tick.Marker = plot.TickerFunc(exponents)
	p.Legend.Top, p.Legend.XOffs = false, -vg.Points(8)
	p.Legend.YOffs, p.Legend.Padding = vg.Points(8), vg.Points(3)
	p.Add(verticals())
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(one row) bool { return strings.Contains(one.Work, ", connections: ") }) // the README has a table of those
	slices.Reverse(rows)                                                                                                         // the first row on top
	var names []string
	for _, row := range rows {
		names = append(names, row.Work)
	}
	const width = 5
	for i, series := range []struct {
		name  string
		color color.Color
	}{{"service", blue}, {"reference (or what the table names)", orange}} {
		var values plotter.Values
		for _, row := range rows {
			value := 0.0
			if side := i * (len(row.Sides) - 1); side < len(row.Sides) { // the service, and the last of the others
				// Bars begin at zero, which a logarithmic axis does not have: the values are logarithms.
				value = math.Log10(max(1, row.Sides[side].Rate))
			}
			values = append(values, value)
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, series.color, 0
		bars.Offset = vg.Points(width) * vg.Length(1-i)
		p.Add(bars)
		p.Legend.Add(series.name, bars)
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, 5
	return save(path, vg.Points(900), vg.Points(float64(60+24*len(rows))), func(c draw.Canvas) { p.Draw(c) })
}

// growth draws time and memory of one list against the number of its RSVPs.
func growth(r results, path string) error {
	time, memory := plot.New(), plot.New()
	time.Title.Text, time.Y.Label.Text = "Time of one list", "milliseconds"
	memory.Title.Text, memory.Y.Label.Text = "Memory that it adds to the process at its peak", "MB"
	time.Y.Scale, time.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	for _, p := range []*plot.Plot{time, memory} {
		p.X.Label.Text = "RSVPs in the world"
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
		p.Legend.Top, p.Legend.Left = true, true
		p.Legend.XOffs, p.Legend.Padding = vg.Points(8), vg.Points(3)
		p.Add(plotter.NewGrid())
	}
	for _, server := range []struct {
		name  string
		color color.Color
	}{{"service", blue}, {"reference", orange}} {
		for i, split := range []string{"events of 100 RSVPs", "one event"} {
			var times, peaks plotter.XYs
			for _, l := range r.Growth {
				if l.Server == server.name && l.Split == split {
					times = append(times, plotter.XY{X: float64(l.RSVPs), Y: l.Seconds * 1e3})
					peaks = append(peaks, plotter.XY{X: float64(l.RSVPs), Y: l.PeakMB})
				}
			}
			for p, points := range map[*plot.Plot]plotter.XYs{time: times, memory: peaks} {
				line, dots, err := plotter.NewLinePoints(points)
				if err != nil {
					return err
				}
				line.Color, dots.Color, line.Width = server.color, server.color, vg.Points(1.5)
				dots.Shape = draw.CircleGlyph{}
				if i == 1 {
					line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
					dots.Shape = draw.BoxGlyph{}
				}
				p.Add(line, dots)
				p.Legend.Add(server.name+", "+split, line, dots)
			}
		}
	}
	return save(path, vg.Points(900), vg.Points(380), func(c draw.Canvas) {
		tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Points(24), PadY: 0, PadTop: vg.Points(8), PadBottom: vg.Points(8), PadLeft: vg.Points(8), PadRight: vg.Points(16)}
		time.Draw(tiles.At(c, 0, 0))
		memory.Draw(tiles.At(c, 1, 0))
	})
}

// decades marks the powers of ten.
func decades(min, max float64) (ticks []plot.Tick) {
	for v := 0.01; v <= max*1.0001; v *= 10 {
		if v < min*0.9999 {
			continue
		}
		label := fmt.Sprintf("%.0f", v)
		if v < 1 {
			label = fmt.Sprintf("%g", v)
		}
		for i := len(label) - 3; i > 0 && v >= 1000; i -= 3 {
			label = label[:i] + "," + label[i:]
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
		for n := 2.0; n < 10 && n*v < max; n++ {
			ticks = append(ticks, plot.Tick{Value: n * v})
		}
	}
	return ticks
}

// exponents marks the same on an axis of logarithms.
func exponents(min, max float64) []plot.Tick {
	ticks := decades(math.Pow(10, min), math.Pow(10, max))
	for i := range ticks {
		ticks[i].Value = math.Log10(ticks[i].Value)
	}
	return ticks
}

func verticals() *plotter.Grid {
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	return grid
}

func save(path string, width, height vg.Length, paint func(draw.Canvas)) error {
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.SetColor(color.White) // readable where pages are dark
	c.Fill(c.Rectangle.Path())
	paint(draw.Crop(c, vg.Points(8), -vg.Points(16), vg.Points(8), -vg.Points(8)))
	var text bytes.Buffer
	if _, err := canvas.WriteTo(&text); err != nil {
		return err
	}
	// Where Liberation Sans is not at hand, Arial and Helvetica have its widths.
	svg := bytes.ReplaceAll(text.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	return os.WriteFile(path, svg, 0o666)
}
