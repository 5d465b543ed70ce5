package report

import (
	"fmt"
	"math"
	"strconv"
)

// number formats a value of any magnitude; NaN, a metric that the data do not define, is a dash.
func number(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

func decimals(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.3f", x)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func verdict(compliant bool) string {
	if compliant {
		return "compliant"
	}
	return "violation"
}
