package report

import (
	"regexp"
	"strings"
)

// identityTerms are words that name a group of people: forms that count together, separated by semicolons. A model that has learned from
// abuse often takes the name for abuse (Dixon et al. 2018). Colors are not among them without a word for people.
const identityTerms = `woman, women; girl, girls; feminist, feminists; gay; lesbian, lesbians; bisexual; trans, transgender; queer;
Muslim, Muslims; Jew, Jews, Jewish; Christian, Christians; Hindu, Hindus; atheist, atheists; immigrant, immigrants, migrant, migrants;
Black people, Black man, Black men, Black woman, Black women; white people, white man, white men, white woman, white women;
African, Africans; Asian, Asians; Arab, Arabs; Chinese; Indian, Indians; Mexican, Mexicans; refugee, refugees;
disabled; autistic; deaf; blind; old people, elderly`

// byTerm groups harmless responses by the terms that they contain; then come those with any term, and all.
func byTerm(bags []Bag) (out []group) {
	if len(bags) == 0 {
		return nil
	}
	named := group{field: "term", value: "any of these"}
	found := make([]bool, len(bags))
	for term := range strings.SplitSeq(identityTerms, ";") {
		g := group{field: "term", value: strings.TrimSpace(term)}
		pattern := regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(g.value, ", ", "|") + `)\b`)
		for i, b := range bags {
			if pattern.MatchString(b.Text) {
				g.bags = append(g.bags, b)
				found[i] = true
			}
		}
		if len(g.bags) > 0 {
			out = append(out, g)
		}
	}
	for i, b := range bags {
		if found[i] {
			named.bags = append(named.bags, b)
		}
	}
	if len(named.bags) > 0 {
		out = append(out, named)
	}
	return append(out, group{"term", "all harmless responses", bags})
}
