package render

// chineseQuote holds the texts of a quote by their English ones; the other lists hold those that it shares.
//
//tidy:const
var chineseQuote = map[string]string{
	"QUOTE FOR %s":           "%s 的试算",
	"Span":                   "试算区间",
	"What the span comes to": "各合同下的费用",
	"%s, as billed":          "%s（现行合同）",
	"Line by line":           "逐项对比",
	"No contract of the customer's own was in force.":                                                  "该区间内客户没有生效的合同。",
	"No GPU was held in the span: there are only fees to compare.":                                     "该区间内没有租用 GPU：只有固定费用可比较。",
	"The customer had several contracts in the span: name one with --contract to compare ways to buy.": "该区间内客户有多份合同：请以 --contract 指定一份，再比较购买方式。",
	" The total is without this time.":                                                                 "合计不含该时间。",

	"%s: %s": "%s：%s",

	// ways to buy
	"Every way with a rank leaves %s out, which the contract cannot price.": "参与排名的各方式均不含合同无法定价的 %s。",
	"Ways to buy the same use under %s":                                     "按 %s 购买同样用量的方式",
	"Way":                                                                   "方式",
	"Whole bill":                                                            "账单总额",
	"Saving":                                                                "节省",
	"what":                                                                  "说明",
	"risk":                                                                  "风险",
	"all on demand":                                                         "全部按需",
	"reserved at the best quantity":                                         "最优数量预留",
	"all off-peak, upper bound of what could be saved":                                                    "全部移至优惠时段（节省上限）",
	"Nothing is owed for GPUs that are not used; that one is free when it is needed is not promised.":     "不用则不付费；但不保证需要时有空闲的 GPU。",
	"A bound, no offer: what runs around the clock cannot move, and what can may have to wait.":           "仅为上限，并非报价：全天运行的用量无法移动，可移动的用量可能需要等待。",
	"No rank: it cannot price all of the time, or prices other time than on demand does. Refused are %s.": "不参与排名：无法为全部时间定价，或定价的时间与按需不同。无法定价的有 %s。",
	"A reservation is paid by local days: ask for a span of whole days.":                                  "预留费按当地天数收取：请试算由整天组成的区间。",
	"The contract has no reservation price for what was held.":                                            "合同没有所租规格的预留价格。",
	"The contract has no spot terms for what was held.":                                                   "合同没有所租规格的竞价条款。",
	"The contract has no window in which on demand is cheaper.":                                           "合同没有按需更便宜的时段。",
	"%s: none; %s does not pay for any quantity from 1 to %d.":                                            "%s：不预留；%s，数量从 1 到 %d 均不划算。",
	"%s: %d of at most %d held at once, %s; the fee is %s, what goes beyond is on demand.":                "%s：预留 %d 张，同时最多租用 %d 张，%s；预留费 %s，超出部分按需。",
	"None: nothing is reserved.":                                                                          "无：没有预留。",
	"The fee is due whether the GPUs are used or not; in the span none of what it pays for went unused.":  "无论是否使用都须支付预留费；该区间内已全部使用。",
	"The fee is due whether the GPUs are used or not; in the span %s of what it pays for went unused.":    "无论是否使用都须支付预留费；该区间内已付费而未使用 %s。",
	"As spot: %s.": "竞价：%s。",
	"Without spot terms, and so on demand: %s.": "没有竞价条款，仍按需：%s。",
	"Reclaims that would have hit a running lease: %d. By price, where it rose above the contract's max or was above it at the start: %d. By the log, where it states that the provider took a spot lease of the SKU and region back: %d.": "运行中的租约本会遇到回收 %d 次：因价格高于合同上限（其间升至上限之上，或开始时已高于上限）%d 次；因日志所载服务商回收同规格、同地域的竞价租约 %d 次。",
	"While the price stood above the max they held %s.":                                                                            "价格高于上限期间，这些租约共租用 %s。",
	"How long GPUs stay away after a reclaim is not in the log.":                                                                   "回收后多久能重新获得 GPU，日志中没有记录。",
	"For %s no price or no limit is known: what would have hit them cannot be told.":                                               "有 %s 的价格或上限未知：是否会受影响无法判断。",
	"No max is agreed for %s: no price counts as a reclaim there.":                                                                 "%s 没有约定上限：价格变化不计为回收。",
	"%s%% of the time is in windows and costs %s there, %s outside; the bill is the lowest possible, with the rest moved into %s.": "%s%% 的时间在优惠时段内，费用 %s，若在时段外则为 %s；账单总额为其余时间全部移入 %s 后的最低值。",
	"Each whole bill is exact, other charges of the span included, and rounded line by line as the contract says; savings are against on demand, percentages rounded half away from zero. The contract counts as it was in force at the end of the span, without its commitments but for the reservation that is tried.": "账单总额为精确值，包含区间内的其他费用，按合同规则逐行舍入；节省额以全部按需为基准，百分比四舍五入。合同按区间结束时有效的条款计，除所试算的预留外，不含其承诺容量。",
}
