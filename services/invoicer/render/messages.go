package render

import (
	"cmp"
	"fmt"
	"strings"
)

// Language of the texts. What is no language here reads as English.
type Language string

// The languages.
const (
	English Language = "en"
	Chinese Language = "zh"
)

// Options say how to render. The zero value is English, 80 columns, no colour.
type Options struct {
	Language Language
	Width    int // columns of the terminal, 40 at least; 0 is 80, and more than 120 are not used
	Colour   bool
}

// say is a text in the reader's language: the English one names it.
func (o Options) say(english string, args ...any) string {
	text := english
	if zh := cmp.Or(chinese[english], chineseContract[english], chineseExplain[english], chineseQuote[english]); zh != "" && o.Language == Chinese {
		text = zh
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// word is say for a word of a document, which may be none of ours.
func (o Options) word(s string) string { return clean(o.say(s)) }

// phrase is word for a name such as on_demand: in English its parts stand as words.
func (o Options) phrase(name string) string {
	if o.Language == Chinese {
		return o.word(name)
	}
	return strings.ReplaceAll(clean(name), "_", " ")
}

// chinese holds every text by its English one.
//
//tidy:const
var chinese = map[string]string{
	// header
	"INVOICE %s":            "账单 %s",
	"CORRECTION %s":         "更正账单 %s",
	"CANCELLATION %s":       "作废账单 %s",
	"INVOICE IN ADVANCE %s": "预付账单 %s",
	"These are fees that the contract has paid when the period begins. The invoice of the whole period takes them off.": "本账单为合同约定在计费周期开始时预付的费用，将在该周期的账单中扣除。",
	"none: the period begins": "无：计费周期开始",
	"cancellation of %s":      "作废 %s",
	"This takes invoice %s back, line by line; its arithmetic stands there. What is due for the period is billed anew.": "本账单逐行冲销账单 %s；计算过程见原账单。该周期的应付金额将重新出账。",
	"Invoice %s billed nothing: there is nothing to take back.":                                                         "账单 %s 没有金额，无需冲销。",
	"none: this closes nothing":      "无：本账单不出账",
	"PREVIEW":                        "账单预览",
	"provisional: complete until %s": "金额待定：数据完整至 %s",
	"provisional":                    "未出账，金额待定",
	"This is not an invoice: it has no number, and its amounts may change until the period closes.":              "本预览不是正式账单：没有账单编号，出账前金额可能变动。",
	"Amounts are differences to what was billed for this period before; the arithmetic shows what is known now.": "本账单金额为与本周期此前出账结果的差额；计算过程按最新数据列示。",
	"Customer":                       "客户",
	"Contract":                       "合同",
	"Period":                         "计费周期",
	"Closing":                        "出账",
	"Trial":                          "试用期",
	"until %s: use costs nothing":    "截至 %s：用量不计费",
	"Total due":                      "应付总额",
	"Total":                          "合计",
	"Difference":                     "差额",
	"%s to %s":                       "%s 至 %s",
	"%s (%s)":                        "%s（%s）",
	"number %d of this period":       "本周期第 %d 次",
	"open: the period is not closed": "未出账",
	"Nothing was used in this period: there is nothing to bill.":     "本计费周期内没有用量，无需付费。",
	"Nothing is billed in this period: all leased time is unbilled.": "本计费周期内没有可计费的用量：全部租用时间均未计费。",

	// table
	"Item":                           "计费项",
	"Leases":                         "租约数",
	"Devices":                        "设备数",
	"GPU-hours":                      "卡时",
	"Amount (%s)":                    "金额 (%s)",
	"Difference (%s)":                "差额 (%s)",
	"dedicated":                      "独占整机",
	"tier %s":                        "服务等级 %s",
	"on_demand":                      "按需",
	"reserved":                       "预留",
	"spot":                           "竞价",
	"forward":                        "预约",
	"spot_max":                       "竞价上限",
	"region":                         "地域",
	"service_tier":                   "服务等级",
	"window":                         "时段",
	"state":                          "状态",
	"covered by %s":                  "由 %s 覆盖",
	"covered_by":                     "覆盖承诺",
	"window %s":                      "时段 %s",
	"%s off":                         "优惠 %s",
	"%s more":                        "加价 %s",
	"gpu-second":                     "卡秒",
	"gpu-minute":                     "卡分钟",
	"gpu-hour":                       "卡时",
	"gpu-day":                        "卡天",
	"gpu-week":                       "卡周",
	"gpu-month":                      "卡月",
	"gpu-quarter":                    "卡季",
	"gpu-year":                       "卡年",
	"price":                          "单价",
	"leased":                         "租用",
	"top-up":                         "补足",
	"amount":                         "金额",
	"change":                         "更正",
	"coverage":                       "采样",
	"start minimum or granularity: ": "按最低时长或计费粒度补足：",
	"%s GPU-hours":                   "%s 卡时",
	"1 GPU-hour":                     "1 卡时",
	"%s GPU-s":                       "%s 卡秒",
	"(exactly %s)":                   "(精确值 %s)",
	"%s, rounded to %s":              "%s，舍入为 %s",
	"billed before %s, known now %s, difference %s":  "此前已计 %s，现应计 %s，差额 %s",
	"not billed before, known now %s, difference %s": "此前未计，现应计 %s，差额 %s",
	"measured":      "实测",
	"inferred":      "推断",
	"missing":       "缺失",
	"start minimum": "起租补足",

	// items
	"Other charges":        "其他费用",
	"Billed in advance":    "已预付",
	"invoice":              "账单",
	"Subtotal":             "小计",
	"Quantity":             "数量",
	"Unit":                 "单位",
	"metered":              "计量",
	"add-on":               "附加服务",
	"tier fee":             "阶梯固定费",
	"commitment shortfall": "承诺消费差额",
	"reservation fee":      "预留费",
	"package":              "套餐",
	"take or pay":          "照付不议",
	"volume":               "阶梯用量",
	"%s GPUs at once: %s":  "同时 %s 卡：%s",
	"%s slice-hours":       "%s 片时",
	"%s slice-s":           "%s 片秒",
	"(each %s of a GPU)":   "（每片 %s 卡）",
	"slice-second":         "片秒",
	"slice-minute":         "片分钟",
	"slice-hour":           "片时",
	"slice-day":            "片日",
	"slice-week":           "片周",
	"slice-month":          "片月",
	"slice-year":           "片年",
	"bundle":               "组合优惠",
	"allowance":            "免费额度",
	"billed":               "计费数量",
	"packages":             "套餐数",
	"full_packages":        "整套餐数",
	"tier":                 "阶梯",
	"flat":                 "固定费",
	"readings":             "读数笔数",
	"at_min":               "按最低金额",
	"by_price":             "按用量",
	"at_max":               "按最高金额",
	"peak":                 "最高存量",
	"part":                 "占比",
	"days":                 "天数",
	"used":                 "用量",
	"charges":              "已计费用",
	"spend":                "消费额",
	"beyond the cap":       "超出封顶部分",
	"uncapped":             "封顶前费用",
	"gpus":                 "卡数",
	"untaken":              "未用",
	"elapsed":              "已过卡时",
	"at_most_the_fee":      "以固定费为限",
	"on-demand difference": "按需差额",
	"termination fee":      "提前终止费",
	"fees_until_then":      "已计费用",
	"fees_to_come":         "未到期费用",
	"spend_to_come":        "未到期承诺消费",
	"share":                "比例",
	"of":                   "/",
	"month":                "月",
	"gpu-hours":            "卡时",
	"Projected":            "预计",
	"This would be due if nothing more was used in the period. It is not part of the total.": "如本周期不再有用量，还将产生以下费用；未计入合计。",

	// limit
	"Limit":                    "限额",
	"%s of %s spent (%s), %s.": "已消费 %s，限额 %s（%s），%s。",
	"Reached: %s.":             "已达 %s。",
	"If all that runs goes on, it will be %s at %s, %s beyond the limit.": "如现有租约全部继续，将达 %s（至 %s），超出限额 %s。",
	"Up to %s beyond it is accepted.":                                     "可接受的超出为 %s。",
	"That is more than the %s that is accepted: stop earlier.":            "已超过可接受的 %s：请提前停用。",

	// notes
	"Rounding":            "舍入",
	"Samples":             "采样",
	"half_away_from_zero": "四舍五入，负数按绝对值",
	"half_even":           "四舍六入五成双",
	"up":                  "向远离零的方向舍入",
	"down":                "向零截断",
	"Each line is rounded once, %s: at most %s a line, %s in all.":                                                                                   "每行金额只舍入一次（%s），每行误差不超过 %s，合计不超过 %s。",
	"Each line is rounded once, %s: less than %s a line, less than %s in all.":                                                                       "每行金额只舍入一次（%s），每行误差小于 %s，合计小于 %s。",
	"What was billed before and what is known now are each rounded once a line, %s; their difference adds no rounding.":                              "此前已计与现应计的金额每行各舍入一次（%s），差额不再舍入。",
	"Samples are missing for a large part of line %s: no collector ran, or its data never came. Leases bill, samples prove: the amount is the same.": "采样大量缺失的行：%s。采集器未运行，或数据未送达；费用以租约为准，采样仅作佐证，金额不受影响。",

	// unbilled
	"Not billed": "未计费",
	"SKU":        "规格",
	"Standing":   "状态",
	"waived":     "已减免",
	"refused":    "暂不可计费",
	"free":       "免费",
	"unobserved": "未采样",
	"why":        "原因",
	"what to do": "处理",
	"detail":     "详情",
	" A correction bills this time once the cause is gone.":                   "原因消除后将以更正账单补计。",
	" Until then the period does not close.":                                  "在此之前本周期无法出账。",
	"Nothing: a person gave this time away for good, and it is never billed.": "无需处理：该时间已由人工减免，不再计费。",

	// list
	"Invoice":      "账单号",
	"correction":   "更正",
	"advance":      "预付",
	"preview":      "预览",
	"issued: %d":   "已出账：%d",
	"previews: %d": "预览：%d",
	"unknown":      "未知",
	"No invoices.": "没有账单。",

	// blocked and refused
	"Nothing blocks a close.": "没有受阻的出账。",
	"Nothing is refused.":     "没有被拒收的记录。",
	"Period (UTC)":            "计费周期 (UTC)",
	"Reason":                  "原因代码",
	"statement":               "记录",
	"Lease":                   "租约",
	"At (UTC)":                "时间 (UTC)",
	"Leased time under no contract: it is on no invoice.": "以下租用时间不属于任何合同，未计入任何账单。",
}
